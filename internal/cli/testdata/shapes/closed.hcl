# An operator who opened nothing.

# An operator who opened what shapes need and may have.
allow_secrets_dir = true

volumes {
  paths = ["/srv/db"]
}

// Hello says who it is run as.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println("hello from uid", os.Getuid()) }

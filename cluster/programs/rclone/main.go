// Command rclone is rclone with what `make bench-pull` asks of it: copies between a folder and an S3 storage. With all
// of its seventy storages it takes many times as long to build. It has a module of its own: its newer dependencies
// would have all of Kubernetes compiled anew.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	_ "github.com/rclone/rclone/backend/s3"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/copy"
)

func main() {
	cmd.Main()
}

shell
#!/bin/bash
test -f /x &&

/etc/eks/bootstrap.sh prod ||
  # again
  exit 1

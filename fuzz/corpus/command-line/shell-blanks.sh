shell
#!/bin/bash
echo a   b c
 
/etc/eks/bootstrap.sh prod --kubelet-extra-args "--node-labels=a=b"

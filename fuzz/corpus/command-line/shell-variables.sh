shell
#!/bin/bash
export $(cat /etc/environment)
read -r "$k" < /x
declare "$k=$v"
f() {
  : ${PODS:=${MORE[0]=9}}
}
PODS=17
/etc/eks/bootstrap.sh prod --max-pods $PODS --dns-cluster-ip "${DNS%%,*}"

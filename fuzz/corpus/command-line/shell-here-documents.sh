shell
#!/bin/bash
cat <<-'E' | tee /x <<F &&
	a $(b
	E
c
F
d <<<e
/etc/eks/bootstrap.sh prod \
  --kubelet-extra-args "--max-pods=$((1<<4))" `f \`g\``

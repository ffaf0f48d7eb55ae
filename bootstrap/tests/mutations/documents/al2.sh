#!/bin/bash -xe
exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1
CLUSTER=shop
TOKEN=eyJhbGciOiJ9SUzI1NiIsImtpZ5CI6IkQ
cat <<EOK > /etc/key.pem
-----BEGIN PRIVATE KEY-----
MIIEv9IBADANBg7qhkiG9w0BAQ3FAASC
-----END PRIVATE KEY-----
EOK
export HTTP_PROXY="http://user:hx7Tq2Mz9kLw4Rb8Vn3Jc6Pd@proxy:3128"
/etc/eks/bootstrap.sh "$CLUSTER" --apiserver-endpoint 'https://abc.eks.amazonaws.com' --b64-cluster-ca 'LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=' \
--use-max-pods false \
--kubelet-extra-args '--node-labels="team=a" --register-with-taints="karpenter.sh/unregistered:NoExecute" --max-pods=20 --manifest-url-header=Authorization:eyJhbGciOiJ9SUzI1NiIsImtpZ5CI6IkQ'
# muster-agent: eyJsYXVuY2hUb2tlbiI6Im1sdDNReDlacjVMazJWbjhUYjZXZDRIczcifQ==

#!/bin/bash
cat <<END
--//
--//--
END

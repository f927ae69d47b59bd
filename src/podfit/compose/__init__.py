"""Creates and connects the components: the only package that names a concrete store. Runtimes are created by
`compose_runtimes`.

`Up` runs everything in one process. Components that run alone (`podfit scheduler`, `podfit agent` …) are built from a
kubeconfig.
"""

from __future__ import annotations

from podfit.compose.agent import agent_alone as agent_alone
from podfit.compose.meter import MeterAlone as MeterAlone
from podfit.compose.options import UpOptions as UpOptions
from podfit.compose.parts import CONTROLLERS as CONTROLLERS
from podfit.compose.parts import SCHEDULER as SCHEDULER
from podfit.compose.parts import account_client as account_client
from podfit.compose.parts import account_user as account_user
from podfit.compose.parts import make_blocks as make_blocks
from podfit.compose.parts import make_controller_context as make_controller_context
from podfit.compose.parts import node_user as node_user
from podfit.compose.parts import open_store as open_store
from podfit.compose.standalone import controllers_alone as controllers_alone
from podfit.compose.standalone import scheduler_alone as scheduler_alone
from podfit.compose.up import Up as Up
from podfit.kit.badsetting import BadSetting as BadSetting

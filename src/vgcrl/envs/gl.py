"""Chooses the OpenGL that MuJoCo renders with. Each is tried in a process of its own, since a broken one may end it."""

import os
import subprocess
import sys

PROBE = (
    "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco/>'); d = mujoco.MjData(m); mujoco.mj_forward(m, d); "
    "r = mujoco.Renderer(m, 16, 16); r.update_scene(d); r.render()"
)


def too_late() -> bool:
    """Returns whether MuJoCo was imported before MUJOCO_GL was set, which it reads only then."""
    return "mujoco" in sys.modules and not os.environ.get("MUJOCO_GL")


def _find() -> bool:
    """Returns whether an OpenGL works here, and if so sets MUJOCO_GL to it."""
    asked = os.environ.get("MUJOCO_GL")
    for name in [asked] if asked else ["egl", "osmesa"]:
        environment = {**os.environ, "MUJOCO_GL": name, "PYOPENGL_PLATFORM": name}
        tried = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, timeout=600)
        if tried.returncode == 0:
            os.environ.update(environment)
            return True
    return False


def choose_gl() -> bool:
    """Returns whether MuJoCo's renderer works here, and sets MUJOCO_GL; call it before MuJoCo is imported."""
    return not too_late() and _find()


def choose_for_gymnasium() -> None:
    """Sets MUJOCO_GL before an environment of Gymnasium's renders, where MuJoCo was imported without a choice.

    Gymnasium's renderer reads it only then; without it, it tries GLFW first, which can end a process without a display.
    """
    shown = any(os.environ.get(name) for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"))
    if "mujoco" in sys.modules and not shown and not _find():
        os.environ["MUJOCO_GL"] = "off"

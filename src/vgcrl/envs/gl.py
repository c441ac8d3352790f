"""Which OpenGL MuJoCo renders with where nothing is said: tried in a process of its own, which a broken one may end."""

import os
import subprocess
import sys

PROBE = (
    "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco/>'); d = mujoco.MjData(m); mujoco.mj_forward(m, d); "
    "r = mujoco.Renderer(m, 16, 16); r.update_scene(d); r.render()"
)


def too_late() -> bool:
    """Whether MuJoCo, which reads which GL to use when it is imported, was imported without a choice."""
    return "mujoco" in sys.modules and not os.environ.get("MUJOCO_GL")


def _find() -> bool:
    """Whether one works, which the environment then names."""
    asked = os.environ.get("MUJOCO_GL")
    for name in [asked] if asked else ["egl", "osmesa"]:
        environment = {**os.environ, "MUJOCO_GL": name, "PYOPENGL_PLATFORM": name}
        tried = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, timeout=600)
        if tried.returncode == 0:
            os.environ.update(environment)
            return True
    return False


def choose_gl() -> bool:
    """Whether MuJoCo's own renderer works here. To be asked before MuJoCo is imported."""
    return not too_late() and _find()


def choose_for_gymnasium() -> None:
    """Before an environment of Gymnasium's renders. Its renderer reads the choice then; without one it tries GLFW
    first, which can end a process that has no display."""
    shown = any(os.environ.get(name) for name in ("MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"))
    if "mujoco" in sys.modules and not shown and not _find():
        os.environ["MUJOCO_GL"] = "off"

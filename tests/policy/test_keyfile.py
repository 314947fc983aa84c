import pickle

import numpy as np
import pytest
import torch

from safetensors.torch import save_file

from rl4co_prompt.policy.keyfile import array_in_pickle, read_keys

KEYS = np.random.default_rng(0).random((4, 6))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("array", [KEYS, KEYS.astype("f4"), np.asfortranarray(KEYS), KEYS[:1]])
def test_a_pickled_array_is_read_without_unpickling(protocol, array):
    assert np.array_equal(array_in_pickle(pickle.dumps(array, protocol)), array)


@pytest.mark.parametrize(
    "name", ["keys_new_4", "torch keys", "k.npy", "k.npz", "k.safetensors", "k.pt"]
)
def test_every_container_of_keys_is_read(tmp_path, name):
    path, tensor = tmp_path / name, torch.from_numpy(KEYS)
    writers = {
        "": lambda: path.write_bytes(pickle.dumps(KEYS)),
        ".npy": lambda: np.save(path, KEYS),
        ".npz": lambda: np.savez(path, keys=KEYS),
        ".safetensors": lambda: save_file({"keys": tensor}, path),
        ".pt": lambda: torch.save(tensor, path),
    }
    writers[".pt" if name.startswith("torch") else path.suffix]()

    assert torch.equal(read_keys(path, 6), tensor.float())


def test_wrong_keys_get_one_sentence(tmp_path):
    path = tmp_path / "keys"
    with pytest.raises(FileNotFoundError, match="No keys at"):
        read_keys(path, 6)
    path.write_bytes(pickle.dumps(KEYS))
    with pytest.raises(ValueError, match=r"holds \[4, 6\] numbers; expected rows of 5"):
        read_keys(path, 5)
    for data in (b"no pickle", pickle.dumps([1.0, 2.0]), pickle.dumps(np.array(["a", "b"]))):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="can't be read as keys"):
            read_keys(path, 6)
    np.savez(tmp_path / "two.npz", a=KEYS, b=KEYS)
    with pytest.raises(ValueError, match="2 arrays instead of one"):
        read_keys(tmp_path / "two.npz", 6)


def test_code_in_a_pickle_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "keys").write_bytes(pickle.dumps([KEYS, Evil()]))
    read_keys(tmp_path / "keys", 6)

    assert not (tmp_path / "ran").exists()

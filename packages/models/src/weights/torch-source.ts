import {
  type Chunk,
  commonRuns,
  dtypeOfTorch,
  dtypes,
  elementCount,
  fillFully,
  isContiguous,
  type ModelFolder,
  openFile,
  openTorchFile,
  pathIn,
  type PickledTensor,
  type RandomAccessFile,
  readRuns,
  type TensorReader,
  type TensorSource,
  type TorchFile,
  wholeChunk,
} from '@shardwise/core/extend';

/**
 * Opens a file of `torch.save` (`.bin`, `.pt`, `.pth`) with tensors by name. Nothing in it is executed. Throws
 * CheckpointError for a damaged file, and for one that contains anything but tensors and plain data.
 */
export async function torchSource(folder: ModelFolder, name: string): Promise<TensorSource> {
  const path = pathIn(folder, name);
  const file = await openFile(folder, name);
  let contents: TorchFile;
  try {
    contents = await openTorchFile(file, path);
  } finally {
    await file.close();
  }
  const { tensors } = contents;
  return {
    place: path,
    names: [...tensors.keys()],
    isVerifiedByReading: false,
    get(tensor) {
      const found = tensors.get(tensor);
      return found && { name: tensor, dtype: dtypeOfTorch(found), shape: found.shape };
    },
    open: () => readerOf(folder, name, contents),
  };
}

function readerOf(
  folder: ModelFolder,
  name: string,
  { tensors, storageOffsets }: TorchFile,
): TensorReader {
  const path = pathIn(folder, name);
  let opened: RandomAccessFile | undefined;
  return {
    async fill(tensorName, chunk, target) {
      const tensor = tensors.get(tensorName);
      const storageOffset = storageOffsets.get(tensor?.storage.key ?? '');
      if (tensor === undefined || storageOffset === undefined)
        throw new RangeError(`no tensor ${tensorName} in ${path}`);
      opened ??= await openFile(folder, name);
      const elementBytes = dtypes[dtypeOfTorch(tensor)].bytes;
      const byteOffset = storageOffset + tensor.offset * elementBytes;
      if (isContiguous(tensor)) {
        await readRuns(
          opened,
          { path, byteOffset, shape: tensor.shape, elementBytes },
          chunk,
          target,
        );
      } else {
        await fillStrided(opened, { path, byteOffset, elementBytes }, tensor, chunk, target);
      }
    },
    async [Symbol.asyncDispose]() {
      await opened?.close();
    },
  };
}

/**
 * Fills `target` with the elements of a chunk of a tensor whose elements lie in another order, such as a transposed one.
 * All of its part of the storage is read.
 */
async function fillStrided(
  file: RandomAccessFile,
  place: { readonly path: string; readonly byteOffset: number; readonly elementBytes: number },
  { shape, strides }: PickledTensor,
  chunk: Chunk,
  target: Uint8Array<ArrayBuffer>,
): Promise<void> {
  if (elementCount(shape) === 0) return;
  const { path, byteOffset, elementBytes } = place;
  const last = shape.reduce((sum, size, dim) => sum + (size - 1) * (strides[dim] ?? 0), 0);
  const storage = new Uint8Array((last + 1) * elementBytes);
  await fillFully(file, path, byteOffset, storage);
  for (const { first, second, count } of commonRuns(wholeChunk(shape), chunk)) {
    for (let index = 0; index < count; index++) {
      const from = placeOf(first + index, shape, strides) * elementBytes;
      const to = (second + index) * elementBytes;
      for (let byte = 0; byte < elementBytes; byte++) target[to + byte] = storage[from + byte] ?? 0;
    }
  }
}

/** Where an element lies in the storage. `index` counts elements row by row. */
function placeOf(index: number, shape: readonly number[], strides: readonly number[]): number {
  let [place, rest] = [0, index];
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    const size = shape[dim] ?? 1;
    place += (rest % size) * (strides[dim] ?? 0);
    rest = Math.floor(rest / size);
  }
  return place;
}

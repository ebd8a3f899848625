import { type DType, dtypes } from '../../spec/dtype.ts';
import { CheckpointError } from '../../spec/errors.ts';
import { type RandomAccessFile, readBytes } from '../model-folder.ts';
import { namedTensors } from './named-tensors.ts';
import { PickledList, type PickledTensor, type PickledValue } from './pickle-values.ts';
import { PickleEnd, unpickle, type Unpickled } from './unpickle.ts';
import { isZip, readZipEntries } from './zip-entries.ts';

/** The tensors of a file of `torch.save`, and where their storages lie. */
export interface TorchFile {
  readonly tensors: ReadonlyMap<string, PickledTensor>;
  /** The place of the first byte of each storage, by its key. */
  readonly storageOffsets: ReadonlyMap<string, number>;
}

/** The dtypes of the elements of storages. */
const dtypeOfStorage: ReadonlyMap<string, DType> = new Map<string, DType>([
  ['torch.DoubleStorage', 'f64'],
  ['torch.FloatStorage', 'f32'],
  ['torch.HalfStorage', 'f16'],
  ['torch.BFloat16Storage', 'bf16'],
  ['torch.LongStorage', 'i64'],
  ['torch.IntStorage', 'i32'],
  ['torch.ByteStorage', 'u8'],
  ['torch.BoolStorage', 'bool'],
]);

const MAX_PICKLE_BYTES = 2 ** 28;
const FIRST_BYTES = 2 ** 16;
/** The number with which files of PyTorch before 1.6 begin. */
const LEGACY_MAGIC = 0x1950a86a20f9469cfc6cn;
const LEGACY_PROTOCOL = 1001;

/** The dtype of a tensor of PyTorch. */
export function dtypeOfTorch({ storage }: PickledTensor): DType {
  const dtype = dtypeOfStorage.get(storage.type);
  if (dtype === undefined) throw new RangeError(`no dtype for ${storage.type}`);
  return dtype;
}

/**
 * Opens a file of `torch.save`: an archive, or the form before PyTorch 1.6. Nothing in it is executed. Throws
 * CheckpointError for a damaged file, and for one that contains anything but tensors and plain data.
 */
export async function openTorchFile(file: RandomAccessFile, path: string): Promise<TorchFile> {
  const start = await readBytes(file, path, 0, Math.min(4, file.byteLength));
  const { tensors, ...storages } = isZip(start)
    ? await namedInArchive(file, path)
    : await openLegacy(file, path);
  for (const [name, tensor] of tensors) storageOffsetOf(storages, tensor, name, path);
  return { tensors, storageOffsets: storages.storageOffsets };
}

/** The object of a file of `torch.save`, whatever it is made of. */
export interface TorchObject {
  readonly value: PickledValue;
  /** Where the elements of a tensor of the object begin in the file. `name` is for errors. Throws CheckpointError. */
  readonly byteOffsetOf: (tensor: PickledTensor, name: string) => number;
}

/**
 * Opens an archive of `torch.save` with any object of plain data and tensors. Nothing in it is executed. Throws
 * CheckpointError for a damaged file, for one of PyTorch before 1.6, and for one that contains anything else.
 */
export async function openTorchObject(file: RandomAccessFile, path: string): Promise<TorchObject> {
  const start = await readBytes(file, path, 0, Math.min(4, file.byteLength));
  if (!isZip(start)) throw broken(path, 'no archive, as PyTorch writes since 1.6');
  const { value, ...storages } = await openArchive(file, path);
  return {
    value,
    byteOffsetOf: (tensor, name) =>
      storageOffsetOf(storages, tensor, name, path) +
      tensor.offset * dtypes[dtypeOfTorch(tensor)].bytes,
  };
}

/** Where the storages of a file lie. */
interface Storages {
  readonly storageOffsets: ReadonlyMap<string, number>;
  readonly ends: ReadonlyMap<string, number>;
}

/** Throws CheckpointError if the file does not have the whole storage. */
function storageOffsetOf(
  { storageOffsets, ends }: Storages,
  tensor: PickledTensor,
  name: string,
  path: string,
): number {
  const { key, length } = tensor.storage;
  const offset = storageOffsets.get(key);
  if (offset === undefined) throw broken(path, `no storage '${key}', which '${name}' needs`);
  const byteLength = length * dtypes[dtypeOfTorch(tensor)].bytes;
  if (offset + byteLength <= (ends.get(key) ?? 0)) return offset;
  throw broken(
    path,
    `storage '${key}' is shorter than the ${byteLength} bytes that '${name}' needs`,
  );
}

/** A file with the ends of its storages, before they are checked. */
interface FoundFile extends TorchFile, Storages {}

async function namedInArchive(file: RandomAccessFile, path: string): Promise<FoundFile> {
  const { value, ...storages } = await openArchive(file, path);
  return { tensors: namedTensors(value, path), ...storages };
}

async function openArchive(
  file: RandomAccessFile,
  path: string,
): Promise<Storages & { readonly value: PickledValue }> {
  const entries = await readZipEntries(file, path);
  const pickleName = [...entries.keys()].find((name) => /^[^/]*\/data\.pkl$/.test(name));
  const pickle = entries.get(pickleName ?? '');
  if (pickleName === undefined || pickle === undefined)
    throw broken(path, 'an archive without data.pkl');
  if (pickle.byteLength > MAX_PICKLE_BYTES)
    throw broken(path, `a pickle of ${pickle.byteLength} bytes`);
  const folder = pickleName.slice(0, -'data.pkl'.length);
  const order = entries.get(`${folder}byteorder`);
  if (order !== undefined) {
    const bytes = await readBytes(file, path, order.byteOffset, Math.min(16, order.byteLength));
    const text = new TextDecoder().decode(bytes);
    if (text !== 'little') throw broken(path, `the byte order ${JSON.stringify(text)}`);
  }
  const bytes = await readBytes(file, path, pickle.byteOffset, pickle.byteLength);
  const { value } = wholePickle(bytes, path);
  const storages = [...entries].filter(([name]) => name.startsWith(`${folder}data/`));
  const keyOf = (name: string): string => name.slice(folder.length + 'data/'.length);
  return {
    value,
    storageOffsets: new Map(storages.map(([name, { byteOffset }]) => [keyOf(name), byteOffset])),
    ends: new Map(
      storages.map(([name, { byteOffset, byteLength }]) => [keyOf(name), byteOffset + byteLength]),
    ),
  };
}

function wholePickle(bytes: Uint8Array, path: string): Unpickled {
  try {
    return unpickle(bytes, 0, path);
  } catch (error) {
    if (error instanceof PickleEnd)
      throw broken(path, `a pickle that ends after ${bytes.byteLength} bytes`);
    throw error;
  }
}

/** Pickles that follow each other (a magic number, a version, facts of the system, the object, keys), and then storages. */
async function openLegacy(file: RandomAccessFile, path: string): Promise<FoundFile> {
  const [[magic, protocol, , object, keys], end] = await readPickles(file, path, 5);
  if (magic?.value !== LEGACY_MAGIC || protocol?.value !== LEGACY_PROTOCOL) {
    throw broken(path, 'neither an archive nor the magic number of earlier files');
  }
  if (object === undefined || !(keys?.value instanceof PickledList))
    throw broken(path, 'no storages');
  const tensors = namedTensors(object.value, path);
  const elementBytes = new Map(
    [...tensors.values()].map((tensor) => [tensor.storage.key, dtypes[dtypeOfTorch(tensor)].bytes]),
  );
  const offsets = new Map<string, number>();
  const ends = new Map<string, number>();
  let at = end;
  for (const key of keys.value.items) {
    const header = await readBytes(file, path, at, 8);
    const length = Number(new DataView(header.buffer).getBigInt64(0, true));
    const bytesOfElement = typeof key === 'string' ? elementBytes.get(key) : undefined;
    if (typeof key !== 'string' || bytesOfElement === undefined || !(length >= 0)) {
      throw broken(path, `a storage at byte ${at} that belongs to no tensor`);
    }
    offsets.set(key, at + 8);
    at += 8 + length * bytesOfElement;
    if (at > file.byteLength) throw broken(path, `storage '${key}' is cut off`);
    ends.set(key, at);
  }
  return { tensors, storageOffsets: offsets, ends };
}

/** Reads pickles that follow each other. How long they are is known only when they are read. */
async function readPickles(
  file: RandomAccessFile,
  path: string,
  count: number,
): Promise<readonly [pickles: readonly Unpickled[], end: number]> {
  for (let length = FIRST_BYTES; ; length *= 4) {
    const bytes = await readBytes(file, path, 0, Math.min(length, file.byteLength));
    try {
      const pickles: Unpickled[] = [];
      let end = 0;
      for (let index = 0; index < count; index++) {
        const pickle = unpickle(bytes, end, path);
        pickles.push(pickle);
        end = pickle.end;
        if (index === 0 && pickle.value !== LEGACY_MAGIC) break;
      }
      return [pickles, end];
    } catch (error) {
      if (!(error instanceof PickleEnd)) throw error;
      if (length < file.byteLength && length < MAX_PICKLE_BYTES) continue;
      throw broken(path, 'a pickle that does not end');
    }
  }
}

function broken(path: string, found: string): CheckpointError {
  return new CheckpointError(
    {
      asked: `Reading the tensors of ${path}`,
      found,
      todo: 'Give another copy of a file of torch.save(model.state_dict(), …)',
    },
    { path },
  );
}

import {
  PickledDict,
  PickledGlobal,
  PickledList,
  PickledObject,
  PickledStorage,
  PickledTensor,
  PickledTuple,
  type PickledValue,
} from './pickle-values.ts';

/** The storages of PyTorch. */
const storages: ReadonlySet<string> = new Set(
  ['Double', 'Float', 'Half', 'BFloat16', 'Long', 'Int', 'Byte', 'Bool'].map(
    (type) => `torch.${type}Storage`,
  ),
);

/** Names that stand for a type: of elements, or of what _rebuild_from_type_v2 makes. They are never called. */
const types: ReadonlySet<string> = new Set(
  ['Tensor', 'nn.parameter.Parameter', 'float64', 'float32', 'float16', 'bfloat16'].map(
    (type) => `torch.${type}`,
  ),
);

/** The functions that a pickle may call. Each makes a value of plain data, and nothing else. */
type Call = (inputs: readonly PickledValue[]) => PickledValue | undefined;
const calls: ReadonlyMap<string, Call> = new Map<string, Call>([
  ['collections.OrderedDict', (inputs) => (inputs.length === 0 ? new PickledDict() : undefined)],
  ['torch._utils._rebuild_tensor_v2', rebuildTensor],
  [
    'torch._utils._rebuild_parameter',
    ([tensor]) => (tensor instanceof PickledTensor ? tensor : undefined),
  ],
  ['torch._tensor._rebuild_from_type_v2', rebuildFromType],
  ['torch.Size', ([sizes]) => (sizes instanceof PickledTuple ? sizes : undefined)],
  ['__builtin__.set', ([items]) => (items instanceof PickledList ? items : undefined)],
  ['builtins.set', ([items]) => (items instanceof PickledList ? items : undefined)],
]);

/** The classes that checkpoints of DeepSpeed contain, such as scalers of losses. They are read as their attributes. */
export function isObject(name: string): boolean {
  return name.startsWith('deepspeed.');
}

/** Whether a pickle may name a class or function. */
export function isAllowed(name: string): boolean {
  return calls.has(name) || storages.has(name) || types.has(name) || isObject(name);
}

/** What a call gives. Undefined for a call that PyTorch does not write. */
export function call(name: string, inputs: readonly PickledValue[]): PickledValue | undefined {
  return isObject(name) ? new PickledObject(name, inputs) : calls.get(name)?.(inputs);
}

/** The storage that a persistent id stands for. Undefined for another id. */
export function storageOf(id: PickledValue): PickledStorage | undefined {
  if (!(id instanceof PickledTuple)) return undefined;
  const [kind, type, key, , length] = id.items;
  if (kind !== 'storage' || !(type instanceof PickledGlobal) || typeof key !== 'string')
    return undefined;
  if (!storages.has(type.name) || !isCount(length)) return undefined;
  // Earlier versions of PyTorch wrote views of storages.
  const view = id.items[5];
  return view === undefined || view === null
    ? new PickledStorage(key, type.name, length)
    : undefined;
}

function rebuildTensor([storage, offset, shape, strides]: readonly PickledValue[]):
  | PickledTensor
  | undefined {
  if (!(storage instanceof PickledStorage) || !isCount(offset)) return undefined;
  if (!(shape instanceof PickledTuple) || !(strides instanceof PickledTuple)) return undefined;
  const [sizes, steps] = [shape.items.filter(isCount), strides.items.filter(isCount)];
  const isWhole = sizes.length === shape.items.length && steps.length === strides.items.length;
  if (!isWhole || sizes.length !== steps.length) return undefined;
  // The last element must lie in the storage.
  const last = sizes.reduce((at, size, dim) => at + (size - 1) * (steps[dim] ?? 0), offset);
  const isEmpty = sizes.includes(0);
  if (!isEmpty && !(last < storage.length)) return undefined;
  return new PickledTensor(storage, offset, sizes, steps);
}

/** A tensor that has attributes in Python, which are left out. */
function rebuildFromType([make, , inputs]: readonly PickledValue[]): PickledTensor | undefined {
  if (!(make instanceof PickledGlobal) || !(inputs instanceof PickledTuple)) return undefined;
  return make.name === 'torch._utils._rebuild_tensor_v2' ? rebuildTensor(inputs.items) : undefined;
}

function isCount(value: PickledValue | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** A class or function that a pickle names. */
export class PickledGlobal {
  readonly name: string;

  /** `name` has the module in it, as `collections.OrderedDict`. */
  constructor(name: string) {
    this.name = name;
  }
}

/** A dict, also an OrderedDict. */
export class PickledDict {
  readonly entries: [key: PickledValue, value: PickledValue][] = [];
}

/** A list. */
export class PickledList {
  readonly items: PickledValue[] = [];
}

/** A tuple. */
export class PickledTuple {
  readonly items: readonly PickledValue[];

  constructor(items: readonly PickledValue[]) {
    this.items = items;
  }
}

/** An object of a class that is not known here, as the data that a pickle has of it. No code of the class exists. */
export class PickledObject {
  /** The name of the class, with its module. */
  readonly name: string;
  /** What the class would be called with. */
  readonly inputs: readonly PickledValue[];
  /** The attributes. Null if there are none. */
  state: PickledDict | null = null;

  constructor(name: string, inputs: readonly PickledValue[]) {
    this.name = name;
    this.inputs = inputs;
  }
}

/** A storage of PyTorch: bytes that lie beside the pickle, which tensors may share. */
export class PickledStorage {
  readonly key: string;
  /** The name of the class, such as `torch.FloatStorage`. */
  readonly type: string;
  /** The number of elements. */
  readonly length: number;

  constructor(key: string, type: string, length: number) {
    this.key = key;
    this.type = type;
    this.length = length;
  }
}

/** A tensor of PyTorch. Offset and strides count elements of the storage. */
export class PickledTensor {
  readonly storage: PickledStorage;
  readonly offset: number;
  readonly shape: readonly number[];
  readonly strides: readonly number[];

  constructor(
    storage: PickledStorage,
    offset: number,
    shape: readonly number[],
    strides: readonly number[],
  ) {
    this.storage = storage;
    this.offset = offset;
    this.shape = shape;
    this.strides = strides;
  }
}

/** What a pickle of PyTorch's tensors can contain. */
export type PickledValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | PickledGlobal
  | PickledDict
  | PickledList
  | PickledTuple
  | PickledObject
  | PickledStorage
  | PickledTensor;

/** Whether the elements of a tensor lie in the storage row by row, as in a chunk. */
export function isContiguous({ shape, strides }: PickledTensor): boolean {
  let expected = 1;
  for (let dim = shape.length - 1; dim >= 0; dim--) {
    const size = shape[dim] ?? 1;
    if (size !== 1 && strides[dim] !== expected) return false;
    expected *= size;
  }
  return true;
}

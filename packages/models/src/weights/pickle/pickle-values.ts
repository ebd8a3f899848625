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
  | PickledStorage
  | PickledTensor;

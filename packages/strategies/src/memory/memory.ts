import {
  checkOptions,
  currentSession,
  type DeviceBuffer,
  Module,
  type Node,
  option,
  type OptionRules,
  type Parameter,
  ParameterPart,
  type ParameterState,
  type Tensor,
} from '@shardwise/core/extend';

/** The bytes that this rank keeps now on its device. */
export interface MemoryUse {
  readonly parameterBytes: number;
  readonly gradientBytes: number;
  readonly optimizerBytes: number;
  readonly bufferBytes: number;
  /** The bytes of states in host memory. They are not included above. */
  readonly hostBytes: number;
  /** The other bytes in use: activations and temporary values; null if the device does not count. */
  readonly otherBytes: number | null;
  /** All bytes in use; null if the device does not count. */
  readonly bytesInUse: number | null;
  /** The most bytes that were in use at the same time. */
  readonly peakBytes: number | null;
}

/** Options of `memory`. */
export interface MemoryOptions {
  readonly model: Module;
  /** The optimizer whose states count. Default: none. */
  readonly optimizer?: {
    stateOf(parameter: Tensor): Pick<ParameterState, 'tensors'> | undefined;
  };
}

const memoryRules: OptionRules<MemoryOptions> = {
  model: option.required(option.instanceOf(Module)),
  optimizer: option.object('an optimizer'),
};

/**
 * Asks the model and the optimizer what they keep on this rank's device, and the device what is in use. Pending
 * values, such as gradients between backward() and step(), are not included, because they do not exist yet.
 */
export function memory(options: MemoryOptions): MemoryUse {
  checkOptions('memory', options, memoryRules);
  const bytes = { parameter: 0, buffer: 0, optimizer: 0, gradient: 0 };
  let hostBytes = 0;
  for (const { kind, memory: place } of heldMemory(options)) {
    if (place instanceof Uint8Array) hostBytes += place.byteLength;
    else bytes[kind] += place.byteLength;
  }
  const states = {
    parameterBytes: bytes.parameter,
    bufferBytes: bytes.buffer,
    optimizerBytes: bytes.optimizer,
    gradientBytes: bytes.gradient,
  };
  const { bytesInUse = null, peakBytes = null } = currentSession().backend.usage?.() ?? {};
  const known = Object.values(states).reduce((sum, bytes) => sum + bytes, 0);
  return {
    ...states,
    hostBytes,
    otherBytes: bytesInUse === null ? null : bytesInUse - known,
    bytesInUse,
    peakBytes,
  };
}

/** Memory that a model and its optimizer keep between steps. */
export interface HeldMemory {
  readonly kind: 'parameter' | 'buffer' | 'optimizer' | 'gradient';
  /** The name of the parameter or buffer. */
  readonly name: string;
  readonly memory: DeviceBuffer | Uint8Array;
}

/** Lists what a model and its optimizer keep on this rank, each memory once. */
export function heldMemory({ model, optimizer }: MemoryOptions): readonly HeldMemory[] {
  const found = new Map<HeldMemory['memory'], HeldMemory>();
  const add = (kind: HeldMemory['kind'], name: string, nodes: Iterable<Node | null>): void => {
    for (const node of nodes) {
      const place = memoryOf(node);
      if (place !== null && !found.has(place)) found.set(place, { kind, name, memory: place });
    }
  };
  const parameters = model.namedParameters();
  for (const [name, parameter] of parameters) add('parameter', name, [storedOf(parameter)]);
  for (const [name, { contents }] of model.namedBuffers()) add('buffer', name, [contents]);
  for (const [name, parameter] of parameters) {
    // With mixed precision, the contents are the f32 copy of the values that forward reads.
    add('optimizer', name, [parameter.part.contents, ...statesOf(optimizer, parameter)]);
  }
  for (const [name, { keptGradients }] of parameters) add('gradient', name, keptGradients);
  return [...found.values()];
}

function statesOf(optimizer: MemoryOptions['optimizer'], parameter: Tensor): Node[] {
  const tensors = optimizer?.stateOf(parameter)?.tensors.values() ?? [];
  return Array.from(tensors, ({ contents }) => contents);
}

function storedOf({ part }: Parameter): Node {
  return part instanceof ParameterPart ? part.stored : part.contents;
}

/** Returns where the contents of a node lie. For an update that has not run yet, this is the memory of its target. */
function memoryOf(node: Node | null): DeviceBuffer | Uint8Array | null {
  const target = node?.op === 'assign' ? node.inputs[0] : undefined;
  if (node === null || target !== undefined) return target === undefined ? null : memoryOf(target);
  const { value } = node;
  if (value?.kind === 'device') return value.storage.buffer;
  return value?.kind === 'host' ? value.bytes : null;
}

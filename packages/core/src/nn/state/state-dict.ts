import { inputNode } from '../../graph/create-node.ts';
import { isHeldAt } from '../../layout/chunks.ts';
import { currentSession, ownPlace } from '../../rank.ts';
import { arraysOfOnly } from '../../serialization/arrays-of-only.ts';
import { hostArray, type HostArray, type HostArrays } from '../../serialization/host-array.ts';
import { elementCount, formatShape, sameShape } from '../../base/shape.ts';
import { dtypes, type ValueType } from '../../spec/dtype.ts';
import { toBytes } from '../../tensor/host-data.ts';
import { Tensor } from '../../tensor/tensor.ts';
import { convertArray } from './convert-array.ts';
import { checkOptions } from '../../base/check-options.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';

/** A model's parameters and persistent buffers on the host, under PyTorch's names and in its layouts. */
export type StateDict = HostArrays;

/** Options of `loadStateDict`. */
export interface LoadOptions {
  /** Whether missing and unexpected names are errors. Default: true. */
  readonly strict?: boolean;
}

/** The rules of the options of a load. */
export const loadRules: OptionRules<LoadOptions> = { strict: option.flag };

/** The names that the load did not find (`missing`), and the names of the dict that it did not use (`unexpected`). */
export interface LoadReport {
  readonly missing: readonly string[];
  readonly unexpected: readonly string[];
}

/** Reads tensors to the host. A tensor with several names is read once and shared. */
export async function readStateDict(
  entries: readonly (readonly [string, Tensor])[],
): Promise<StateDict> {
  const arrays = new Map<Tensor, HostArray>();
  const dict: Record<string, HostArray> = {};
  for (const [name, tensor] of entries) {
    const array = arrays.get(tensor) ?? (await readArray(name, tensor));
    arrays.set(tensor, array);
    dict[name] = array;
  }
  return dict;
}

/** Reads a tensor to the host. If only one rank holds it, that rank sends it to the others. */
async function readArray(name: string, tensor: Tensor): Promise<HostArray> {
  const { layout } = tensor.part;
  const read = async (): Promise<HostArray> =>
    hostArray(tensor.dtype, tensor.shape, toBytes(await tensor.data()).slice());
  const own = isHeldAt(layout, ownPlace) ? { [name]: await read() } : undefined;
  return (await arraysOfOnly(layout, own))?.[name] ?? read();
}

/** The destination of an array of a state dict. */
type Target = ValueType & { assign(value: Tensor): unknown };

/**
 * Overwrites tensors with the arrays of the same names. Arrays are converted if convertArray can do it. Throws
 * CheckpointError, before anything changes, that lists all missing and unexpected names and all arrays that do not fit,
 * also if nothing fits where names may differ.
 */
export async function writeStateDict(
  owner: string,
  entries: readonly (readonly [string, Target])[],
  dict: StateDict,
  options: LoadOptions,
): Promise<LoadReport> {
  checkOptions('loadStateDict', options, loadRules);
  const names = new Set(entries.map(([name]) => name));
  const missing = [...names].filter((name) => !Object.hasOwn(dict, name));
  const unexpected = Object.keys(dict).filter((name) => !names.has(name));
  const different: string[] = [];
  const values = new Map<Target, HostArray>();
  for (const [name, tensor] of entries) {
    const array = Object.hasOwn(dict, name) ? dict[name] : undefined;
    if (array === undefined) continue;
    const difference = describeDifference(tensor, array);
    const converted = difference === undefined ? convertArray(array, tensor.dtype) : undefined;
    if (converted !== undefined) values.set(tensor, converted);
    else different.push(`${name} (${difference ?? `${array.dtype}, not ${tensor.dtype}`})`);
  }
  if (missing.length + unexpected.length + different.length > 0) {
    const { requireFit } = await import('../../serialization/state-mismatch.ts');
    requireFit(
      `load a state dict into ${owner}`,
      { missing, unexpected, different },
      { strict: options.strict ?? true, fitting: values.size },
    );
  }
  for (const [tensor, { shape, dtype, bytes }] of values) {
    tensor.assign(new Tensor(inputNode(shape, dtype, { kind: 'host', bytes })));
  }
  if (values.size > 0) await currentSession().realize([]);
  return { missing, unexpected };
}

function describeDifference(tensor: ValueType, array: HostArray): string | undefined {
  const bytes = elementCount(array.shape) * dtypes[array.dtype].bytes;
  if (!sameShape(tensor.shape, array.shape)) {
    return `shape ${formatShape(array.shape)}, not ${formatShape(tensor.shape)}`;
  }
  if (array.bytes.byteLength !== bytes) return `${array.bytes.byteLength} bytes, not ${bytes}`;
  return undefined;
}

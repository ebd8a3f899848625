import { formatShape, sameShape } from '../../base/shape.ts';
import type { TensorSource } from '../../serialization/tensor-source.ts';
import type { DType } from '../../spec/dtype.ts';
import { CheckpointError } from '../../spec/errors.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import type { Module } from '../module/module.ts';
import { modelTensors } from './model-tensors.ts';

/** A tensor of a model, and the tensor of a source that it is loaded from. */
export interface Match {
  /** The name of the tensor in the model. */
  readonly name: string;
  readonly tensor: Tensor;
  /** The name of the tensor in the source. */
  readonly stored: string;
  /** Other tensors of the source that must have the same values, because the model shares one tensor. */
  readonly copies: readonly string[];
}

/** A tensor of the source that does not fit the tensor of the model. */
interface Difference {
  readonly name: string;
  readonly difference: string;
}

export interface Matches {
  readonly matches: readonly Match[];
  /** Names of the model that the source lacks. */
  readonly missing: readonly string[];
  /** Names of the source that the model lacks. */
  readonly unexpected: readonly string[];
  readonly different: readonly Difference[];
}

export interface MatchOptions {
  /** Returns the name that a tensor of the source has in the model. Null drops the tensor. */
  readonly rename?: (name: string) => string | null;
  /** Whether a tensor of one dtype can be loaded into a tensor of another. */
  readonly converts: (from: DType, to: DType) => boolean;
}

/** Finds the tensors of a source for those of a model. A shared tensor is found under any of its names. */
export function matchTensors(
  source: TensorSource,
  model: Module,
  { rename, converts }: MatchOptions,
): Matches {
  const storedOf = namesInModel(source, rename);
  const matches: Match[] = [];
  const missing: string[] = [];
  const different: Difference[] = [];
  const used = new Set<string>();
  for (const { names, tensor } of modelTensors(model)) {
    const [name] = names;
    const found = [
      ...new Set(names.map((each) => storedOf(each)).filter((each) => each !== undefined)),
    ];
    const [stored, ...copies] = found;
    if (stored === undefined) {
      missing.push(name);
      continue;
    }
    for (const each of found) used.add(each);
    const difference = found
      .map((each) => differenceOf(source, each, tensor, converts))
      .find((each) => each !== undefined);
    if (difference === undefined) matches.push({ name, tensor, stored, copies });
    else different.push({ name, difference });
  }
  const unexpected = source.names.filter((name) => rename?.(name) !== null && !used.has(name));
  return { matches, missing, unexpected, different };
}

/** Returns a function that finds the tensor of the source for a name of the model. */
function namesInModel(
  source: TensorSource,
  rename: MatchOptions['rename'],
): (name: string) => string | undefined {
  // A checkpoint knows more names than it lists: those of shared tensors.
  if (rename === undefined) return (name) => source.get(name)?.name;
  const renamed = new Map<string, string>();
  for (const name of source.names) {
    const inModel = rename(name);
    if (inModel === null) continue;
    const other = renamed.get(inModel);
    if (other !== undefined) {
      throw new CheckpointError(
        {
          asked: `to load tensors of ${source.place} under other names`,
          found: `rename makes '${inModel}' of both '${other}' and '${name}'`,
          todo: 'Return null for the one that the model does not need',
        },
        { names: [other, name], renamed: inModel },
      );
    }
    renamed.set(inModel, name);
  }
  return (name) => renamed.get(name);
}

/** Says why a tensor of the source cannot be loaded into a tensor. Returns undefined if it can. */
function differenceOf(
  source: TensorSource,
  stored: string,
  tensor: Tensor,
  converts: MatchOptions['converts'],
): string | undefined {
  const found = source.get(stored);
  if (found === undefined) return 'missing';
  const { wholeShape } = tensor.part;
  if (!sameShape(found.shape, wholeShape)) {
    return `shape ${formatShape(found.shape)}, not ${formatShape(wholeShape)}`;
  }
  if (!converts(found.dtype, tensor.dtype)) return `${found.dtype}, not ${tensor.dtype}`;
  return source.whyNot?.(stored, tensor.part);
}

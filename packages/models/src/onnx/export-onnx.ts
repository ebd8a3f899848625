import {
  modelParts,
  type OnnxGraph,
  type OnnxInitializer,
  tensorTypes,
  type TensorType,
} from '@shardwise/backend-cpu/onnx';
import {
  checkOptions,
  ConfigError,
  currentSession,
  dtypes,
  elementCount,
  type Module,
  option,
  type OptionRules,
  type Tensor,
} from '@shardwise/core/extend';
import { PretrainedModel } from '../model/pretrained-model.ts';
import { stateName } from '../model/state-module.ts';
import { acceptedAxes } from './accepted-axes.ts';
import { type DynamicAxes, sizeAxes } from './dynamic-axes.ts';
import { LeafNames } from './leaf-names.ts';
import { sampleOf } from './sample.ts';
import { SizeNodes } from './size-nodes.ts';
import { sizedGraph } from './sized-graph.ts';
import { type ExportableModule, Traces } from './traces.ts';

/** Options of `exportOnnx`. */
export interface OnnxOptions {
  /** Default: the names of forward's parameters, and of keys in its arguments, in snake_case: `input_ids`. */
  readonly inputNames?: readonly string[];
  /**
   * Default: keys of what forward() returns, or else `logits` for a model with a head, `last_hidden_state` for one without,
   * and `output` for other modules.
   */
  readonly outputNames?: readonly string[];
  /**
   * The dims that may have any size, by the name of the input. Default: dim 0 of all inputs is `batch`, and dim 1 of
   * inputs that are not floats is `sequence`, up to the number of positions in the model's config. `{}` fixes all dims.
   */
  readonly dynamicAxes?: DynamicAxes;
  /** The type of the file's inputs for tensors of i32, such as tokens. Default: i64, as in PyTorch. */
  readonly integers?: 'i32' | 'i64';
}

/** The rules of the options. */
export const onnxRules: OptionRules<OnnxOptions> = {
  inputNames: option.listOf(option.nonEmptyText),
  outputNames: option.listOf(option.nonEmptyText),
  dynamicAxes: option.object(),
  integers: option.oneOf('i32', 'i64'),
};

/** The most bytes of weights in one file. A message of the protobuf format is smaller than 2 GiB. */
export const MAX_BYTES: number = 2 ** 31 - 2 ** 20;

/**
 * Returns an ONNX file (operator set 21) of the model's forward pass, as with eval(). `sample` has the arguments of the
 * pass; only their shapes and dtypes count. Parameters and buffers have the names of the state dict. Throws ConfigError
 * for what depends on sizes in a way that a file cannot have, and for a file of 2 GiB or more, which `saveOnnx` writes
 * with its weights beside it. Throws LayoutError for a model that needs other ranks, and BackendError for ops without
 * operator.
 */
export async function exportOnnx<Inputs extends readonly unknown[]>(
  model: ExportableModule<Inputs>,
  sample: Inputs,
  options: OnnxOptions = {},
): Promise<Uint8Array> {
  checkOptions('exportOnnx', options, onnxRules);
  const { graph, weights, byteLength } = await onnxModel(model, sample, options);
  if (byteLength > MAX_BYTES) {
    throw new ConfigError(
      {
        asked: 'an ONNX file in one piece',
        found: `${byteLength} bytes of weights; the format ends at 2 GiB`,
        todo: 'Use saveOnnx() of @shardwise/models/node, which writes the weights beside the model',
      },
      { byteLength },
    );
  }
  const initializers = [...graph.initializers, ...(await readWeights(weights))];
  return joined(modelParts({ ...graph, initializers }));
}

/** A tensor of the file. */
export interface OnnxWeight {
  readonly name: string;
  readonly type: TensorType;
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** Returns the little-endian elements. */
  readonly read: () => Promise<Uint8Array>;
}

/** Reads weights, one after the other. */
export async function readWeights(weights: readonly OnnxWeight[]): Promise<OnnxInitializer[]> {
  const initializers: OnnxInitializer[] = [];
  for (const { name, type, shape, read } of weights) {
    initializers.push({ name, type, shape, bytes: await read() });
  }
  return initializers;
}

/** A model whose weights are not in its graph yet. */
export interface OnnxModel {
  readonly graph: OnnxGraph;
  readonly weights: readonly OnnxWeight[];
  /** The bytes of all weights. */
  readonly byteLength: number;
}

/** Does what `exportOnnx` does, without reading the weights. */
export async function onnxModel<Inputs extends readonly unknown[]>(
  model: ExportableModule<Inputs>,
  given: Inputs,
  options: OnnxOptions,
): Promise<OnnxModel> {
  const { integers = 'i64' } = options;
  const sample = sampleOf(model, given, options.inputNames);
  const asked = sizeAxes(sample.inputs, options.dynamicAxes, positionsOf(model));
  await computeState(model);
  const names = new LeafNames(model);
  const isCast = ({ dtype }: Tensor): boolean => dtype === 'i32' && integers === 'i64';
  // A file takes i64, and the graph computes with the i32 of that.
  const valueNames = sample.inputs.map(({ name, tensor }) =>
    isCast(tensor) ? `/i32 ${name}` : name,
  );
  const inputNames = sample.inputs.map(({ name }) => name);
  const traces = new Traces(model, sample, asked, names, valueNames);
  const axes = inEvaluation(model, () => acceptedAxes(traces, asked));
  const sizeNodes = new SizeNodes(axes, inputNames);
  const graph = inEvaluation(model, () => sizedGraph(traces, axes, sizeNodes));
  const { outputKeys } = traces.at(axes.map(({ seen }) => seen));
  const outputNames = namesOf(outputKeys, model, options.outputNames);
  requireDifferent(names, inputNames, outputNames);
  const casts = sample.inputs.flatMap(({ name, tensor }, index) =>
    isCast(tensor)
      ? {
          op: 'Cast',
          domain: '' as const,
          inputs: [name],
          outputs: [valueNames[index] ?? ''],
          attributes: { to: { int: tensorTypes.i32 } },
        }
      : [],
  );
  const renamed = new Map(
    graph.outputs.map(({ name }, index) => [name, outputNames[index] ?? name]),
  );
  const rename = (name: string): string => renamed.get(name) ?? name;
  const weights = graph.inputs.flatMap((input): OnnxWeight[] => {
    const weight = names.weight(input.name);
    return weight === undefined ? [] : [weightOf(weight.name, input.type, weight.tensor)];
  });
  return {
    graph: {
      nodes: [
        ...casts,
        ...sizeNodes.nodes,
        ...graph.nodes.map((node) => ({
          ...node,
          inputs: node.inputs.map(rename),
          outputs: node.outputs.map(rename),
        })),
      ],
      initializers: [...graph.initializers, ...sizeNodes.initializers],
      inputs: sample.inputs.map(({ name, tensor }, input) => ({
        name,
        type: tensorTypeOf(tensor, isCast(tensor)),
        shape: tensor.shape.map((size, dim) => {
          const axis = axes.find(({ places }) =>
            places.some((place) => place.input === input && place.dim === dim),
          );
          return axis?.name ?? size;
        }),
      })),
      outputs: graph.outputs.map((output) => ({ ...output, name: rename(output.name) })),
    },
    weights,
    byteLength: weights.reduce((sum, weight) => sum + weight.byteLength, 0),
  };
}

function weightOf(name: string, type: TensorType, tensor: Tensor): OnnxWeight {
  const { shape, dtype } = tensor;
  return {
    name,
    type,
    shape,
    byteLength: elementCount(shape) * dtypes[dtype].bytes,
    read: async () => {
      const { buffer, byteOffset, byteLength } = await tensor.data();
      return new Uint8Array(buffer, byteOffset, byteLength).slice();
    },
  };
}

function tensorTypeOf({ dtype }: Tensor, isCast: boolean): TensorType {
  return isCast ? 'i64' : dtype;
}

/** Computes parameters and buffers that are not there yet, so that the graph does not contain how they are made. */
async function computeState(model: Module): Promise<void> {
  const pending = [...model.namedState(), ...model.namedBuffers()]
    .map(([, { node }]) => node)
    .filter(({ value }) => value === null);
  if (pending.length > 0) await currentSession().realize(pending);
}

/** Runs `body` while the modules are in evaluation, and puts each back as it was. */
function inEvaluation<T>(model: Module, body: () => T): T {
  const modes = model.namedModules().map(([, module]) => ({ module, mode: module.training }));
  model.eval();
  try {
    return body();
  } finally {
    // Parents come first, and set their children.
    for (const { module, mode } of modes) module.train(mode);
  }
}

function namesOf(
  keys: readonly (string | undefined)[],
  model: Module,
  given: readonly string[] | undefined,
): readonly string[] {
  const usual = usualOutput(model);
  const names = keys.map(
    (key, index) =>
      given?.[index] ??
      (key === undefined ? `${usual}${keys.length > 1 ? `_${index}` : ''}` : stateName(key)),
  );
  const isOdd = names.some((name) => name === '' || name.startsWith('/'));
  if (!isOdd && (given?.length ?? 0) <= keys.length && new Set(names).size === names.length) {
    return names;
  }
  throw new ConfigError(
    {
      asked: `an ONNX file with the outputs ${JSON.stringify(names)}`,
      found: `forward() returns ${keys.length} tensors`,
      todo: 'Give each of them a different name in outputNames, without / at its start',
    },
    { outputs: names },
  );
}

/** The name of the only output, as Hugging Face's files have it. */
function usualOutput(model: Module): string {
  if (!(model instanceof PretrainedModel) || model.baseModelPrefix === '') return 'output';
  const hasHead = model.namedChildren().some(([name]) => name === model.baseModelPrefix);
  return hasHead ? 'logits' : 'last_hidden_state';
}

function requireDifferent(
  names: LeafNames,
  inputs: readonly string[],
  outputs: readonly string[],
): void {
  const taken =
    [...inputs, ...outputs].find((name) => names.weight(name) !== undefined) ??
    outputs.find((name) => inputs.includes(name));
  if (taken === undefined) return;
  throw new ConfigError(
    {
      asked: `an ONNX file with an input or output ${taken}`,
      found: 'a parameter or another input of this name',
      todo: 'Choose other inputNames or outputNames',
    },
    { name: taken },
  );
}

/** The number of positions that a model's config has. */
function positionsOf(model: Module): number | undefined {
  if (!(model instanceof PretrainedModel)) return undefined;
  const config: object = model.config;
  return ['maxPositionEmbeddings', 'nPositions']
    .map((key): unknown => Reflect.get(config, key))
    .find((value) => typeof value === 'number');
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.byteLength;
  }
  return bytes;
}

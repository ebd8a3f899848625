import { standardComposites, standardGraph } from '@shardwise/backend-cpu/onnx';
import type { OnnxGraph } from '@shardwise/backend-cpu/onnx';
import {
  ConfigError,
  describeValue,
  type DType,
  inputNode,
  type Module,
  noGrad,
  Tensor,
  type TracedProgram,
  traceProgram,
  withCollectiveOrder,
  withoutValues,
} from '@shardwise/core/extend';
import { shapeAt, type SizeAxis } from './dynamic-axes.ts';
import type { LeafNames } from './leaf-names.ts';
import type { Sample } from './sample.ts';

/** A module that can be exported: its forward pass returns a tensor, a list of tensors, or an object of tensors. */
export interface ExportableModule<Inputs extends readonly unknown[]> extends Module {
  forward(...inputs: Inputs): Tensor | readonly Tensor[] | Readonly<Record<string, Tensor>>;
}

/** A forward pass at some sizes. */
export interface Trace extends TracedProgram {
  /** The name of the value of each leaf. */
  readonly leafNames: readonly string[];
  /** The keys of the outputs in the object that forward() returns. Undefined for other outputs. */
  readonly outputKeys: readonly (string | undefined)[];
}

const traced: ReadonlySet<DType> = new Set<DType>(['f32', 'f64', 'i32', 'i64', 'bool']);

/** The forward passes of a model at several sizes. They are traced, and compute nothing. */
export class Traces<Inputs extends readonly unknown[]> {
  readonly #model: ExportableModule<Inputs>;
  readonly #sample: Sample<Inputs>;
  readonly #axes: readonly SizeAxis[];
  readonly #names: LeafNames;
  /** The names of the values of the inputs in the graph. */
  readonly #inputNames: readonly string[];
  readonly #known = new Map<string, Trace>();

  constructor(
    model: ExportableModule<Inputs>,
    sample: Sample<Inputs>,
    axes: readonly SizeAxis[],
    names: LeafNames,
    inputNames: readonly string[],
  ) {
    this.#model = model;
    this.#sample = sample;
    this.#axes = axes;
    this.#names = names;
    this.#inputNames = inputNames;
  }

  at(sizes: readonly number[]): Trace {
    const key = sizes.join();
    const known = this.#known.get(key) ?? this.#trace(sizes);
    this.#known.set(key, known);
    return known;
  }

  /** The graph at some sizes, with `given` scalars in the place of constants, by the number of the instruction. */
  graphAt(sizes: readonly number[], given: ReadonlyMap<number, string>): OnnxGraph {
    const trace = this.at(sizes);
    const graph = standardGraph(trace, given);
    const names = new Map(trace.leafNames.map((name, index) => [graph.inputs[index]?.name, name]));
    // Names of state have no slash at their start, so no other value has one of them.
    const rename = (name: string): string =>
      names.get(name) ?? (name === '' || name.startsWith('/') ? name : `/${name}`);
    return {
      nodes: graph.nodes.map((node) => ({
        ...node,
        inputs: node.inputs.map(rename),
        outputs: node.outputs.map(rename),
      })),
      initializers: graph.initializers.map((each) => ({ ...each, name: rename(each.name) })),
      inputs: graph.inputs.map((each) => ({ ...each, name: rename(each.name) })),
      outputs: graph.outputs.map((each) => ({ ...each, name: rename(each.name) })),
    };
  }

  #trace(sizes: readonly number[]): Trace {
    const inputs = this.#sample.inputs.map(({ tensor: { shape, dtype } }, index) =>
      // Nothing reads the bytes of an input of a trace.
      inputNode(shapeAt(shape, index, this.#axes, sizes), dtype, {
        kind: 'host',
        bytes: new Uint8Array(0),
      }),
    );
    const call = this.#sample.with(inputs.map((node) => new Tensor(node)));
    const outputs = outputsOf(
      withCollectiveOrder('apart', () =>
        withoutValues(() => noGrad(() => this.#model.forward(...call))),
      ),
    );
    const limits = { dtypes: traced, native: standardComposites };
    const program = traceProgram(
      outputs.map(({ tensor }) => tensor.node),
      limits,
    );
    return {
      ...program,
      leafNames: program.leaves.map((leaf) => {
        const input = inputs.findIndex((node) => node === leaf);
        return this.#inputNames[input] ?? this.#names.of(leaf);
      }),
      outputKeys: outputs.map(({ key }) => key),
    };
  }
}

function outputsOf(
  returned: unknown,
): readonly { readonly key: string | undefined; readonly tensor: Tensor }[] {
  const isList = Array.isArray(returned);
  const entries: [string, unknown][] =
    returned instanceof Tensor || typeof returned !== 'object' || returned === null
      ? [['', returned]]
      : Object.entries(returned);
  const isNamed = !isList && entries[0]?.[0] !== '';
  const outputs = entries.map(([key, tensor]) => {
    if (tensor instanceof Tensor) return { key: isNamed ? key : undefined, tensor };
    throw new ConfigError({
      asked: 'an ONNX file of a model',
      found: `forward() returned ${describeValue(tensor)}`,
      todo: 'Return a tensor, a list of tensors, or an object of tensors, and no promise',
    });
  });
  if (outputs.length > 0) return outputs;
  throw new ConfigError({
    asked: 'an ONNX file of a model',
    found: 'forward() returned no tensor',
    todo: 'Return a tensor, a list of tensors, or an object of tensors',
  });
}

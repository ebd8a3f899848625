import type { OnnxGraph } from '@shardwise/backend-cpu/onnx';

/**
 * Tells whether graphs compute the same outputs from the same leaves. It does not matter how often a graph computes a
 * value: sizes that are equal by chance let a trace share values that other traces compute apart.
 */
export class Fingerprints {
  readonly #numbers = new Map<string, number>();

  /** Equal texts belong to equal graphs. `scalars` are the contents of values that are not in the graph. */
  of(graph: OnnxGraph, scalars: ReadonlyMap<string, string>): string {
    const values = new Map<string, number>();
    for (const { name } of graph.inputs) values.set(name, this.#number(`input ${name}`));
    for (const [name, content] of scalars) values.set(name, this.#number(content));
    for (const each of graph.initializers) {
      values.set(each.name, this.#number(contentOf(each)));
    }
    for (const { op, inputs, outputs, attributes } of graph.nodes) {
      const operands = inputs.map((name) => values.get(name) ?? -1);
      const node = JSON.stringify([op, operands, attributes]);
      for (const [index, name] of outputs.entries()) {
        values.set(name, this.#number(`${node} ${index}`));
      }
    }
    return graph.outputs.map(({ name }) => values.get(name) ?? -1).join();
  }

  #number(content: string): number {
    const number = this.#numbers.get(content) ?? this.#numbers.size;
    this.#numbers.set(content, number);
    return number;
  }
}

function contentOf(initializer: OnnxGraph['initializers'][number]): string {
  if ('sizes' in initializer) return `sizes ${initializer.sizes.join()}`;
  return 'bytes' in initializer
    ? scalarContent(initializer.type, initializer.bytes)
    : initializer.name;
}

/** The content of a scalar, for `Fingerprints`. */
export function scalarContent(type: string, bytes: Uint8Array): string {
  return `${type} ${bytes.join()}`;
}

import { isOp, type Module, type Node, targetOf, Tensor } from '@shardwise/core/extend';

/** A tensor of the model, or one that its forward pass makes of numbers. */
export interface Weight {
  readonly name: string;
  readonly tensor: Tensor;
}

/**
 * Names the leaves of the graphs of a model: its state by the names of the state dict, and other tensors by their place.
 * A tensor with several names has the first of them.
 */
export class LeafNames {
  readonly #names = new Map<Node, string>();
  readonly #weights = new Map<string, Weight>();
  readonly #made: { readonly name: string; readonly node: Node; readonly bytes: Uint8Array }[] = [];

  constructor(model: Module) {
    for (const [name, tensor] of [...model.namedState(), ...model.namedBuffers()]) {
      const leaf = leafOf(tensor.node);
      if (this.#names.has(leaf)) continue;
      this.#names.set(leaf, name);
      this.#weights.set(name, { name, tensor });
    }
  }

  weight(name: string): Weight | undefined {
    return this.#weights.get(name);
  }

  /** Equal numbers that several forward passes make have the same name. */
  of(leaf: Node): string {
    const known = this.#names.get(leaf);
    if (known !== undefined) return known;
    const bytes = leaf.value?.kind === 'host' ? leaf.value.bytes : undefined;
    const isEqual = (other: { readonly node: Node; readonly bytes: Uint8Array }): boolean =>
      bytes !== undefined &&
      other.node.dtype === leaf.dtype &&
      other.node.shape.join() === leaf.shape.join() &&
      other.bytes.length === bytes.length &&
      bytes.every((byte, index) => byte === other.bytes[index]);
    const equal = this.#made.find(isEqual);
    const name = equal?.name ?? `/constant${this.#names.size}`;
    if (equal === undefined) {
      if (bytes !== undefined) this.#made.push({ name, node: leaf, bytes });
      this.#weights.set(name, { name, tensor: new Tensor(leaf) });
    }
    this.#names.set(leaf, name);
    return name;
  }
}

function leafOf(node: Node): Node {
  return isOp(node, 'assign') ? targetOf(node) : node;
}

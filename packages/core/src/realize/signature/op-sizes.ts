import type { Node } from '../../graph/node.ts';
import { makeNode } from '../../graph/create-node.ts';
import type { Op, OpParams } from '../../spec/op.ts';

/** The parameters of an op that are lists of sizes. */
type Lists<K extends Op> = {
  readonly [Name in keyof OpParams[K]]?: OpParams[K][Name] extends readonly number[] ? true : never;
};

/**
 * The parameters that are sizes. Programs of one structure may differ in them. Other numbers, such as dims, are part of
 * the structure.
 */
const sizeLists: { readonly [K in Op]?: Lists<K> } = {
  constant: { shape: true },
  iota: { shape: true },
  random: { shape: true },
  reshape: { shape: true },
  expand: { shape: true },
  slice: { starts: true, stops: true },
  pad: { before: true, after: true },
  conv2dInput: { inputShape: true },
  conv2dWeight: { weightShape: true },
  allToAllRows: { shape: true },
};

/** Whether a parameter of an op, of this name and value, is a list of sizes. */
export function isSizeList(op: Op, name: string, value: unknown): value is readonly number[] {
  const names: Readonly<Record<string, true | undefined>> = sizeLists[op] ?? {};
  return names[name] === true && Array.isArray(value);
}

/** The parameters of a node that are lists of sizes, in the order of the parameters. */
export function sizeListsOf({ op, params }: Node): readonly (readonly number[])[] {
  return Object.entries(params).flatMap(([name, value]) =>
    isSizeList(op, name, value) ? [value] : [],
  );
}

/** The same node without inputs, and with `next(size)` in the place of each size. */
export function withSizes(node: Node, next: (size: number) => number): Node {
  const entries = Object.entries(node.params).map(([name, value]): [string, unknown] =>
    isSizeList(node.op, name, value) ? [name, value.map(next)] : [name, value],
  );
  // The cast is safe, because the parameters keep their names and types.
  const params = Object.fromEntries(entries) as Node['params'];
  return makeNode(node.op, params, [], node.shape, node.dtype, false);
}

export function hasSizes({ op }: Node): boolean {
  return op in sizeLists;
}

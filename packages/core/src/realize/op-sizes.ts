import type { Node } from '../graph/node.ts';
import { makeNode } from '../graph/create-node.ts';
import type { Op, OpParams } from '../spec/op.ts';

/** Lists of sizes among the parameters of an op. */
type Lists<K extends Op> = {
  readonly [Name in keyof OpParams[K]]?: OpParams[K][Name] extends readonly number[] ? true : never;
};

/**
 * The parameters that are sizes, in which programs of one structure may differ. Numbers that are not listed, as of
 * dims, are part of the structure.
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

/** The parameters of a node in two parts: lists of sizes, and the rest. */
export interface SplitParams {
  readonly sizes: readonly (readonly number[])[];
  readonly rest: Readonly<Record<string, unknown>>;
}

export function splitParams({ op, params }: Node): SplitParams {
  const names: Readonly<Record<string, true | undefined>> = sizeLists[op] ?? {};
  const sizes: (readonly number[])[] = [];
  const rest: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(params)) {
    if (names[name] === true && isNumbers(value)) sizes.push(value);
    else rest[name] = value;
  }
  return { sizes, rest };
}

/** The same node with the next sizes in the place of its own, without inputs. */
export function withSizes(node: Node, next: (size: number) => number): Node {
  const names: Readonly<Record<string, true | undefined>> = sizeLists[node.op] ?? {};
  const entries = Object.entries(node.params).map(([name, value]): [string, unknown] =>
    names[name] === true && isNumbers(value) ? [name, value.map(next)] : [name, value],
  );
  // The parameters keep their names and kinds.
  const params = Object.fromEntries(entries) as Node['params'];
  return makeNode(node.op, params, [], node.shape, node.dtype, false);
}

export function hasSizes({ op }: Node): boolean {
  return op in sizeLists;
}

function isNumbers(value: unknown): value is readonly number[] {
  return Array.isArray(value);
}

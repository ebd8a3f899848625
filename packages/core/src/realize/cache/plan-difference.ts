import type { CallSite } from '../../graph/call-site.ts';
import { type Node, none } from '../../graph/node.ts';
import { formatShape } from '../../base/shape.ts';

/** A node of a program, in the form in which it is compared with a node of the next program. */
export interface Part {
  readonly op: string;
  /** The text of the node's parameters and shape. */
  readonly text: string;
  readonly site: CallSite | null;
}

/** Makes the part of a node. */
export function partOf({ op, params, shape, site }: Node): Part {
  const isPlain = op === 'input' || op === 'constant' || params === none;
  const text = isPlain ? '' : `${structureKey(params).replaceAll(/,(?=[}\]])/g, '')} `;
  return { op, text: `${text}of shape ${formatShape(shape)}`, site };
}

/** A difference of two programs on a line of the user's code. */
export interface Difference {
  readonly before: Part;
  readonly now: Part;
  readonly line: string;
}

/** The first difference on a line of the user's code. Null if there is none, or if the programs have different ops. */
export function firstDifference(before: readonly Part[], now: readonly Part[]): Difference | null {
  const same = before.length === now.length && now.every(({ op }, at) => op === before[at]?.op);
  if (!same) return null;
  for (const [index, part] of now.entries()) {
    const { [index]: other } = before;
    if (other === undefined || part.text === other.text) continue;
    const line = part.site?.line ?? null;
    if (line !== null) return { before: other, now: part, line };
  }
  return null;
}

/** The warning for a program in which nearly every run makes a plan. */
export function messageOf(difference: Difference | null): string {
  const what =
    difference === null
      ? 'their operations or sizes differ'
      : `${difference.line} makes ${describe(difference.now)} where the run before had ${describe(difference.before)}`;
  return `nearly every run makes a plan and compiles it, which takes far longer than to run it: ${what}. Pad batches to one of a few sizes, and write numbers that change as operands (x.mul(rate)) or as tensors. statistics().plansMade counts plans.`;
}

function describe({ op, text }: Part): string {
  return op === 'input' || op === 'constant' ? `a tensor ${text}` : `${op} ${text}`;
}

/**
 * Plain data as text. Different values have different texts, also NaN, infinities and the two zeros, which JSON does
 * not distinguish.
 */
export function structureKey(value: unknown): string {
  switch (typeof value) {
    case 'number':
      return Object.is(value, -0) ? '-0' : `${value}`;
    case 'string':
      return JSON.stringify(value);
    case 'object': {
      if (value === null) return 'null';
      let text = '';
      if (Array.isArray(value)) {
        for (const item of value) text += `${structureKey(item)},`;
        return `[${text}]`;
      }
      for (const [name, field] of Object.entries(value)) text += `${name}:${structureKey(field)},`;
      return `{${text}}`;
    }
    default:
      return String(value);
  }
}

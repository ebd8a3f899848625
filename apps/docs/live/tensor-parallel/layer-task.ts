/** What the page asks its ranks to compute: two layers, `relu(x · up) · down`. */
export interface LayerTask {
  /** How the two weights lie on the ranks. */
  readonly split: 'columns, then rows' | 'rows, then columns' | 'not split';
}

/** A tensor as one rank has it. */
export interface LayerPart {
  readonly name: string;
  /** The shape of the whole tensor. */
  readonly shape: readonly [number, number];
  /** The layout as the library writes it, such as `shard(1: tp)`. */
  readonly layout: string;
  /** The values that this rank has. `rows` and `columns` are their range in the whole tensor. */
  readonly values: readonly number[];
  readonly rows: readonly [number, number];
  readonly columns: readonly [number, number];
}

/** What a rank did in one step of the layer. */
export interface LayerStep {
  readonly step: number;
  readonly title: string;
  readonly parts: readonly LayerPart[];
  /** The collectives that ran in this step, by kind. */
  readonly collectives: Readonly<Record<string, number>>;
  /** The difference between the result and what one rank computes alone. Absent before the result is there. */
  readonly difference?: number;
}

export const LAYER_TITLES = [
  'Each rank takes its part of the weights.',
  'The first product: x · up.',
  'ReLU, of each element by itself.',
  'The second product: hidden · down.',
  'All ranks get the whole result.',
  'Backward: the gradients of the weights, and that of x for the layer before.',
] as const;
export const TOKENS = 4;
export const WIDTH = 6;
export const HIDDEN = 8;

import type { DType, Shape } from '../spec/dtype.ts';
import type { Layout } from '../spec/layout.ts';

/** What a rank keeps of a new parameter's contents: a copy, as the contents are freed. */
export interface InitialPart {
  /** The elements that the layout gives this rank, and padding behind them. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly layout: Layout;
  /** Tells apart what ranks have drawn of which they keep parts. */
  readonly drawn: number;
}

/** What a rank is to keep of a parameter whose contents are `bytes`; null: all of it. */
export type KeepPart = (
  bytes: Uint8Array,
  parameter: { readonly shape: Shape; readonly dtype: DType },
) => InitialPart | null;

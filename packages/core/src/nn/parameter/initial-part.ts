import type { DType, Shape } from '../../spec/dtype.ts';
import type { Layout } from '../../spec/layout.ts';

/** The part of a new parameter's contents that a rank keeps. It is a copy, because the contents are freed. */
export interface InitialPart {
  /** The elements that the layout gives to this rank, followed by padding. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly layout: Layout;
  /** A fingerprint of the drawn contents, by which ranks that keep parts compare them. */
  readonly drawn: number;
}

/** Returns the part that a rank keeps of a parameter whose contents are `bytes`. Null means all of it. */
export type KeepPart = (
  bytes: Uint8Array,
  parameter: { readonly shape: Shape; readonly dtype: DType },
) => InitialPart | null;

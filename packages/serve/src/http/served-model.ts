import type { Engine } from '../engine/engine.ts';

/** A model that a server offers. */
export interface ServedModel {
  /** What requests call it. */
  readonly id: string;
  /** Generates text. Null if the model only embeds. */
  readonly engine: Engine | null;
  /** The adapter of the engine with which it generates. Default: the engine's model without one. */
  readonly adapter?: string;
  /** Makes a vector of each text, or of its tokens. Null if the model only generates. */
  readonly embed: TextEmbedder | null;
}

/** Makes vectors of texts. */
export type TextEmbedder = (
  inputs: readonly (string | readonly number[])[],
) => Promise<{ readonly vectors: readonly Float32Array[]; readonly tokens: number }>;

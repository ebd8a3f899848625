import { describe } from 'vitest';
import { compareParts, comparePartsOfBatches, comparePartsOfLayers } from './compare-strategies.ts';

describe('Models train alike on one rank and on ranks that have parts of rows:', () => {
  // Gemma 3 has windows with other rotary embeddings.
  compareParts(['GPT-2', 'Llama with tied embeddings, biases and wide heads', 'Gemma 3']);
});

describe('Models train alike where ranks also have parts of layers:', () => {
  comparePartsOfLayers(['GPT-2']);
});

describe('Models train alike where other ranks have other rows:', () => {
  comparePartsOfBatches(['GPT-2']);
});

import { describe } from 'vitest';
import {
  compareExpertsInParts,
  compareParts,
  comparePartsOfBatches,
  comparePartsOfLayers,
} from './compare-strategies.ts';

describe('Models train alike on one rank and on ranks that have parts of rows:', () => {
  // Gemma 2 has windows and bounded scores. The slow test has other models.
  compareParts(['Gemma 2']);
});

describe('Models train alike where ranks also have parts of layers:', () => {
  comparePartsOfLayers(['Llama with tied embeddings, biases and wide heads']);
});

describe('Models train alike where other ranks have other rows:', () => {
  comparePartsOfBatches(['Mixtral']);
});

describe('Models with experts train alike on one rank and on ranks that have parts of rows:', () => {
  compareExpertsInParts(['Mixtral']);
});

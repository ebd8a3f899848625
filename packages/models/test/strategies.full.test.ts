import { describe } from 'vitest';
import { compareDocuments, compareExperts, compareStrategies } from './compare-strategies.ts';

describe('Models train alike on one rank and by strategies that are told nothing of them:', () => {
  // The slow test has the other models.
  compareStrategies(['Llama with tied embeddings, biases and wide heads', 'Mixtral']);
  compareExperts(['Mixtral']);
});

describe('Models train alike on rows of packed documents:', () => {
  // GPT-2 has embeddings of positions, Gemma 2 has windows and rotary embeddings.
  compareDocuments(['GPT-2', 'Gemma 2']);
});

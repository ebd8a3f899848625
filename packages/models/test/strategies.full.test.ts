import { describe } from 'vitest';
import { compareExperts, compareStrategies } from './compare-strategies.ts';

describe('Models train alike on one rank and by strategies that are told nothing of them:', () => {
  compareStrategies(['GPT-2', 'Llama with tied embeddings, biases and wide heads', 'Mixtral']);
  compareExperts(['Mixtral']);
});

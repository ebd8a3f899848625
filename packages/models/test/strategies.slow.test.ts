import { describe } from 'vitest';
import { compareStrategies } from './compare-strategies.ts';

describe('Models train alike on one rank and by strategies that are told nothing of them:', () => {
  compareStrategies(['GPT-2', 'Llama', 'Qwen 2', 'Qwen 3', 'Mistral', 'Gemma 2', 'Gemma 3']);
});

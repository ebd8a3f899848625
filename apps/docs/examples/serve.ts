import { cpu } from '@shardwise/backend-cpu';
import { manualSeed, setRank } from '@shardwise/core';
import { byteTokenizer } from '@shardwise/data';
import { GPT2LMHeadModel } from '@shardwise/models';
import { complete, Engine } from '@shardwise/serve';

setRank({ device: await cpu() });
manualSeed(1);
// A model with random weights, whose tokens are bytes.
const config = { vocabSize: 260, nPositions: 128, nEmbd: 32, nLayer: 2, nHead: 2 };
const engine = new Engine(new GPT2LMHeadModel(config), byteTokenizer(), { blockSize: 8 });

// Requests that come at the same time are answered together, a token of each in every step.
const prompt = 'Answer in one word. The capital of France is';
const [first, second] = await Promise.all(
  [7, 8].map((seed) => complete(engine.generate({ prompt, maxNewTokens: 12, seed }))),
);
console.log(first?.[0]?.tokens.length, second?.[0]?.tokens.length); // prints 12 12

// A prompt that begins like an earlier one finds its keys and values in the cache.
await complete(engine.generate({ prompt: `${prompt} Italy`, maxNewTokens: 4, seed: 1 }));
const { steps, generatedTokens, prefixTokens, usedBlocks } = engine.statistics;
console.log(generatedTokens, 'tokens in', steps, 'steps;', prefixTokens, 'found in the cache');
// prints 28 tokens in 17 steps; 80 found in the cache
console.log(usedBlocks, 'blocks in use'); // prints 0 blocks in use

// The same seed gives the same text, alone or among others.
const again = await complete(engine.generate({ prompt, maxNewTokens: 12, seed: 7 }));
console.log(again[0]?.text === first?.[0]?.text); // prints true
await engine.dispose();

import { cpu, setRank } from 'shardwise';
import { trainAlone } from './training.ts';

// This program prints the milliseconds of the first training step of its process.

setRank({ device: await cpu() });
const [step] = await trainAlone().run(1);
console.log(step?.ms);

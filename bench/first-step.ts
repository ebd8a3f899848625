import { cpu, setRank } from 'shardwise';
import { trainAlone } from './training.ts';

// Prints the milliseconds of the first training step of this process.

setRank({ device: await cpu() });
const [step] = await trainAlone().run(1);
console.log(step?.ms);

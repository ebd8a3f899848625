// A rank of `shardwise run` that runs random programs and prints their outcomes. Arguments: the first seed, and the
// number of programs.
import { init } from 'shardwise';
import { currentSession } from '@shardwise/core/extend';
import { outcomesOf } from './run-programs.ts';

const [from = 1, count = 1] = process.argv.slice(2).map(Number);
const context = await init();
const outcomes = await outcomesOf(context.group, currentSession().backend, { from, count });
console.log(`outcomes ${JSON.stringify(outcomes)}`);
await context.close();

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { mpiGroup } from '@shardwise/collectives/node';
import { train } from './training.ts';

// mpiexec starts this program. Each rank writes its results to FOLDER/rank.json.
const [folder = ''] = process.argv.slice(2);
const group = await mpiGroup();
const { rank } = group;
const trained = await train(group, await cpu());
await writeFile(join(folder, `${rank}.json`), JSON.stringify(trained));

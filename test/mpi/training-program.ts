import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { mpiGroup } from '@shardwise/collectives/node';
import { train } from './training.ts';

// What mpiexec starts: each rank writes what it has come to into FOLDER/rank.json.
const [folder = ''] = process.argv.slice(2);
const group = await mpiGroup();
const { rank } = group;
const trained = await train(group, await cpu());
await writeFile(join(folder, `${rank}.json`), JSON.stringify(trained));

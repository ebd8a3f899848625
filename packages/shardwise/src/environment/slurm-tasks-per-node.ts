import { MAX_WORLD_SIZE, valueError } from './variables.ts';

const NAME = 'SLURM_STEP_TASKS_PER_NODE';
const MAX_CHARACTERS = 1 << 16;

/**
 * Returns the number of tasks of each node: `4(x2),3` is 4, 4 and 3. Throws ConfigError if the text is not such a list.
 */
export function expandTasksPerNode(text: string): readonly number[] {
  const error = (): Error => valueError(NAME, text, 'a list such as 4(x2),3');
  if (text.length > MAX_CHARACTERS) throw error();
  const tasks: number[] = [];
  for (const part of text.split(',')) {
    const match = /^(?<count>\d{1,7})(?:\(x(?<nodes>\d{1,7})\))?$/.exec(part);
    const count = Number(match?.groups?.['count'] ?? 0);
    const nodes = Number(match?.groups?.['nodes'] ?? 1);
    const fits = tasks.length + nodes <= MAX_WORLD_SIZE;
    if (count === 0 || nodes === 0 || count > MAX_WORLD_SIZE || !fits) throw error();
    for (let node = 0; node < nodes; node++) tasks.push(count);
  }
  return tasks;
}

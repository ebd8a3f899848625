import { networkCommand } from './network-command.ts';

/** Names have the form `shardwise-PID-SET-PART`, with the id of the process that made the namespace. */
const PREFIX = 'shardwise-';

export function namespaceName(set: string, part: string): string {
  return `${PREFIX}${process.pid}-${set}-${part}`;
}

/** Ends the processes of a network namespace and removes it with its links. */
export async function removeNamespace(name: string): Promise<void> {
  for (const pid of await processIdsOf(name)) end(pid);
  await networkCommand('ip', `netns del ${name}`);
}

export async function processIdsOf(name: string): Promise<readonly number[]> {
  const lines = await networkCommand('ip', `netns pids ${name}`);
  return lines.split('\n').flatMap((line) => (line === '' ? [] : [Number(line)]));
}

/** Removes the namespaces that killed runs have left. */
export async function removeLeftNamespaces(): Promise<void> {
  const list = await networkCommand('ip', 'netns list');
  const names = list.split('\n').map((line) => line.split(' ')[0] ?? '');
  const left = names.filter((name) => {
    const pid = Number(name.split('-')[1]);
    return name.startsWith(PREFIX) && pid > 0 && !isAlive(pid);
  });
  // Another run may be removing the same namespaces.
  await Promise.allSettled(left.map(removeNamespace));
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended by itself.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

import type { Readings } from './readings.ts';

const ROOT = '/sys/fs/cgroup';

/**
 * Returns the texts of a file of this process's cgroup and of those around it, the innermost first. `name` is the file of
 * version 2, and `nameOfVersion1` that of version 1 with its controller: `memory/memory.limit_in_bytes`.
 */
export function cgroupText(
  { read }: Pick<Readings, 'read'>,
  name: string,
  nameOfVersion1: string,
): readonly string[] {
  const lines = (read('/proc/self/cgroup') ?? '').split('\n');
  const own = lines.find((line) => line.startsWith('0::'))?.slice(3) ?? '/';
  const [controller = '', file = ''] = nameOfVersion1.split('/', 2);
  const ownOfVersion1 = lines
    .map((line) => /^\d+:([^:]*):(.*)$/.exec(line))
    .find((match) => match?.[1]?.split(',').includes(controller))?.[2];
  const paths = [
    ...foldersUpFrom(own).map((folder) => `${ROOT}${folder}/${name}`),
    ...foldersUpFrom(ownOfVersion1 ?? '/').map(
      (folder) => `${ROOT}/${controller}${folder}/${file}`,
    ),
  ];
  return paths.flatMap((path) => read(path) ?? []);
}

/** Returns the folders from `path` to the root, which is empty. A container sees its own cgroup as the root. */
function foldersUpFrom(path: string): readonly string[] {
  const parts = path.split('/').filter((part) => part !== '' && part !== '..');
  return [...parts.keys(), parts.length]
    .map((count) =>
      parts
        .slice(0, count)
        .map((part) => `/${part}`)
        .join(''),
    )
    .toReversed();
}

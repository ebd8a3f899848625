import { placeInMesh } from '../../mesh.ts';
import { currentSession } from '../../rank.ts';
import { ConfigError } from '../../spec/errors.ts';

/** Writes a report to the file. On other ranks than the first, it does nothing. Throws ConfigError. */
export type WriteReport = (report: string) => void;

/**
 * Creates the file of a report on rank 0, with the folders above it, so that a path that cannot be written fails before
 * anything is measured. What the file contains stays until the report replaces it. Throws ConfigError in a page, too,
 * which has no files.
 */
export function openReport(path: string): WriteReport {
  const files = nodeFiles(path);
  if (placeInMesh(currentSession().mesh).rank !== 0) return () => {};
  const attempt = (run: () => void): void => {
    try {
      run();
    } catch (error) {
      throw notWritten(path, error instanceof Error ? error.message : String(error));
    }
  };
  attempt(() => {
    files.system.mkdirSync(files.paths.dirname(path), { recursive: true });
    files.system.appendFileSync(path, '');
  });
  return (report) => attempt(() => files.system.writeFileSync(path, `${report}\n`));
}

/** Node's modules. They are not imported, because pages load this file, too. */
function nodeFiles(path: string) {
  const builtin =
    typeof process === 'undefined' ? undefined : process.getBuiltinModule?.bind(process);
  if (builtin === undefined) throw notWritten(path, 'this platform has no files');
  return { system: builtin('node:fs'), paths: builtin('node:path') };
}

function notWritten(path: string, found: string): ConfigError {
  return new ConfigError(
    {
      asked: `a profile with outputFile: ${JSON.stringify(path)}`,
      found: `the file cannot be written: ${found}`,
      todo: 'Give the path of a file that this process may write, or leave outputFile out and print the profile',
    },
    { path },
  );
}

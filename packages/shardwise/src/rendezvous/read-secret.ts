import { readFile } from 'node:fs/promises';
import { ConfigError } from '@shardwise/core/extend';

/** The variable with the job's secret. It is for launchers. Ranks receive the secrets that they need in messages. */
export const secretVariable = 'SHARDWISE_SECRET';

const MIN_CHARACTERS = 16;
const MAX_CHARACTERS = 4096;

/** Reads the secret, which all hosts of a job know and nobody else does. Throws ConfigError. */
export async function readSecret(
  file: string | undefined,
  environment: NodeJS.ProcessEnv,
): Promise<string> {
  const source = file ?? secretVariable;
  const text = file === undefined ? environment[secretVariable] : await readText(file);
  const secret = text?.trim() ?? '';
  if (secret.length >= MIN_CHARACTERS && secret.length <= MAX_CHARACTERS) return secret;
  throw new ConfigError({
    asked: "The job's secret, without which anybody could join its hosts",
    found:
      secret === ''
        ? `${source} holds none`
        : `${source} holds ${secret.length} characters, not ${MIN_CHARACTERS} to ${MAX_CHARACTERS}`,
    todo: `Make one with \`openssl rand -hex 32 > job.secret\`, and give it to every host with --secret-file or ${secretVariable}`,
  });
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new ConfigError(
      {
        asked: `Reading the job's secret from ${path}`,
        found: cause instanceof Error ? cause.message : String(cause),
        todo: 'Give the path of a file that holds it',
      },
      { path },
      { cause },
    );
  }
}

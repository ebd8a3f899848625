import { readFile } from 'node:fs/promises';
import { ConfigError } from 'shardwise';
import { parseDocument, type YAMLParseError } from 'yaml';
import { isValues, type Values } from './key-table.ts';

/** The longest text of a configuration that is read. */
const MOST_BYTES = 1024 * 1024;

/** Texts in quotes, which may contain the marks of a comment, and comments of JavaScript's kinds. */
const QUOTED_OR_COMMENT = /"(?:[^"\\]|\\.)*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g;

/**
 * Reads a file of JSON or YAML, with comments and commas at the end of lists. Throws ConfigError for a file that is missing, too
 * long or broken, and for a key that stands twice, with the line.
 */
export async function readConfigFile(path: string): Promise<Values> {
  const asked = `the configuration ${path}`;
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (cause) {
    const found = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(
      { asked, found, todo: 'Name a file that can be read' },
      { path },
      { cause },
    );
  }
  return parseConfig(asked, text);
}

/** Parses the text of a configuration. Throws ConfigError. */
function parseConfig(asked: string, text: string): Values {
  if (text.length > MOST_BYTES) {
    const found = `${text.length} characters, where at most ${MOST_BYTES} are read`;
    throw new ConfigError({ asked, found, todo: 'Name a file of settings' });
  }
  // YAML has JSON's values, and its comments begin with #.
  const json = text.trimStart().startsWith('{');
  const plain = json
    ? text.replaceAll(QUOTED_OR_COMMENT, (each) =>
        each.startsWith('"') ? each : each.replaceAll(/[^\n]/g, ' '),
      )
    : text;
  const document = parseDocument(plain, { uniqueKeys: true, prettyErrors: true });
  const [error] = document.errors;
  if (error !== undefined) {
    throw new ConfigError(
      { asked, found: describeProblem(error, json), todo: 'Correct the file there' },
      {},
      { cause: error },
    );
  }
  const value: unknown = document.toJS({ maxAliasCount: 100 });
  if (isValues(value)) return value;
  const found =
    value === null ? 'nothing' : `${JSON.stringify(value).slice(0, 60)}, which is no object`;
  throw new ConfigError({ asked, found, todo: 'Name a file with an object of settings' });
}

/** Says what is wrong and where. The parser speaks of YAML, which JSON is to it. */
function describeProblem({ code, message, linePos }: YAMLParseError, json: boolean): string {
  const [{ line, col } = { line: 1, col: 1 }] = linePos ?? [];
  const place = `at line ${line}, column ${col}`;
  if (code === 'DUPLICATE_KEY') return `a key that stands twice, ${place}`;
  if (!json) return message.split('\n', 1).join('').replace(/:$/, '');
  const isOpen = code === 'BAD_INDENT' || code === 'MISSING_CHAR';
  return `no JSON: ${isOpen ? 'a comma, a quote, or the end of a list or section is missing' : 'something that is not expected'} ${place}`;
}

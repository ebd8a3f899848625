import { transform } from 'sucrase';

/**
 * Removes types from a program, and turns its imports into calls of `require`. Throws a SyntaxError that says where it
 * is.
 */
export function translate(source: string): string {
  try {
    return transform(source, {
      transforms: ['typescript', 'imports'],
      preserveDynamicImport: true,
      disableESTransforms: true,
    }).code;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const [, what = message, line, column] = /^(.*) \((\d+):(\d+)\)$/.exec(message) ?? [];
    const place = line === undefined ? '' : ` in line ${line}, column ${column}`;
    const said = `The program was not run: ${what}${place}. Correct it there, and run it again`;
    throw new SyntaxError(said, { cause: error });
  }
}

/** Returns the modules that a program imports, except those imported only for types. */
export function importsOf(translated: string): readonly string[] {
  return [
    ...new Set([...translated.matchAll(/\brequire\('([^']+)'\)/g)].map(([, name = '']) => name)),
  ];
}

import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { pathToFileURL } from 'node:url';
import { SourceTextModule } from 'node:vm';

// A program of its own, run with --experimental-vm-modules: parses the files of its command line, and
// runs none. V8 keeps the place of a syntax error to itself; only Node, where nobody catches the
// error, prints it.
for (const path of process.argv.slice(2)) {
  const source = readFileSync(path, 'utf8');
  const sourceUrl = pathToFileURL(path).href;
  const code = /\.[cm]?ts$/.test(path) ? stripTypeScriptTypes(source, { sourceUrl }) : source;
  void new SourceTextModule(code, { identifier: sourceUrl });
}

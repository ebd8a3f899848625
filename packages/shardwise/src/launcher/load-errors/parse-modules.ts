import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { pathToFileURL } from 'node:url';
import { SourceTextModule } from 'node:vm';

// This is a separate program, run with --experimental-vm-modules. It parses the files of its command line and runs none
// of them. V8 does not tell the place of a syntax error. Only Node prints it, and only if nobody catches the error.
for (const path of process.argv.slice(2)) {
  const source = readFileSync(path, 'utf8');
  const sourceUrl = pathToFileURL(path).href;
  const code = /\.[cm]?ts$/.test(path) ? stripTypeScriptTypes(source, { sourceUrl }) : source;
  void new SourceTextModule(code, { identifier: sourceUrl });
}

/* thumbs.c: an extension of Python that makes thumbnails, and loses the pixels of each. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

enum { PIXEL_BYTES = 8000 };

static int sum_of_pixels(int seed)
{
    unsigned char *pixels = malloc(PIXEL_BYTES);
    int sum = 0;
    if (pixels == NULL)
        return 0;
    memset(pixels, seed & 0xff, PIXEL_BYTES);
    for (int i = 0; i < PIXEL_BYTES; i++)
        sum += pixels[i];
#ifdef MENDED
    free(pixels);
#endif
    return sum;
}

static PyObject *make(PyObject *self, PyObject *arguments)
{
    int seed;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "i", &seed))
        return NULL;
    return PyLong_FromLong(sum_of_pixels(seed));
}

static PyMethodDef methods[] = {{"make", make, METH_VARARGS, "A thumbnail's sum."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "thumbs", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_thumbs(void)
{
    return PyModule_Create(&module);
}
